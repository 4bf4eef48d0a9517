"""Forms that change a session, each previewed before it writes."""
