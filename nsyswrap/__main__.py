"""``python -m nsyswrap``."""

from nsyswrap.cli import main

main()
