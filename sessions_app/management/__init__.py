"""Holds the commands of `adkweb`, each in a file of its name in `commands/`."""
