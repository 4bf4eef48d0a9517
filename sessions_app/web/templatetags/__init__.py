"""The tags and filters that are built into every template."""
