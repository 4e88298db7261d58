"""``python -m tantamount`` is the ``tantamount`` command."""

from tantamount.cli.main import main

main()
