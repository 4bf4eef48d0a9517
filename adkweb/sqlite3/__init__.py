"""Django's SQLite backend for adkweb's own database, whose files nobody else on this machine can read."""
