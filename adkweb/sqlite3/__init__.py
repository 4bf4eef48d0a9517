"""Django's SQLite backend for adkweb's own database, whose files no one else on this machine can read."""
