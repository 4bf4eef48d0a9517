"""Django's PostgreSQL backend, for databases that may be behind a pooler such as PgBouncer."""
