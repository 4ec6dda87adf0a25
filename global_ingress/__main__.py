"""`python -m global_ingress COMMAND`."""

from global_ingress.cli import main

main()
