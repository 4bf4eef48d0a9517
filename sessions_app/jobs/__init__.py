"""Work that outlives a request: imports, long forks, edits that wait; one table, one claim, one heartbeat, one resume."""
