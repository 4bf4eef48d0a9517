"""Formats of files and databases that sessions are read from and written to, a module each."""
