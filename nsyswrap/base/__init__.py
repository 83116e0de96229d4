"""What every part of the package may use. This package imports nothing else of nsyswrap."""
