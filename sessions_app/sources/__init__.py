"""Databases: found, opened, adopted, released. The one place that knows how SQLite and PostgreSQL differ."""
