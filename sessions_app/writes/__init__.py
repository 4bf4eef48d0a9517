"""THE WRITE PATH: the only code that changes ADK's tables. Read append.py first."""
