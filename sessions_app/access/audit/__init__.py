"""Records acts that are not events of a session, with who did them and when, and shows that the record is unaltered."""
