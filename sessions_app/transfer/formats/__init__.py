"""Reads sessions from files and databases, and writes them to files: one module for each format."""
