"""`python -m heeler`."""

from __future__ import annotations

from heeler.cli.main import main

main()
