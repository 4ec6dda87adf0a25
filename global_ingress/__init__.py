"""What carries requests to the pools, and what deploys and proves that."""

from importlib.metadata import version

__version__ = version("global-ingress")
