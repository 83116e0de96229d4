"""The version of nsyswrap."""

__version__ = "0.2.0"
