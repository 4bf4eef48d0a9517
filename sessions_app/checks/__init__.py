"""Is the state of an app well kept? ADK's own advice, and rules that a person writes."""
