"""`python -m discovery COMMAND`."""

from discovery.cli import main

main()
