"""The index that sessions are found with, in adkweb's own database: fed from the sources, a session at a time."""
