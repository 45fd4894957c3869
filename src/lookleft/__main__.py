"""`python -m lookleft` is the `lookleft` command."""

from lookleft.cli.main import main

main()
