"""The session page: its timeline, chat and trace, its state now and in the past, one event, two runs beside each other."""
