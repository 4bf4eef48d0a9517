"""Copies adkweb's own database as a whole: backup and restore. ADK's databases are never touched."""
