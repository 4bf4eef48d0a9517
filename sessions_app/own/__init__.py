"""adkweb's own database as a whole: backup and restore, and what is kept in it of sources that are not named any more.
ADK's databases are never touched."""
