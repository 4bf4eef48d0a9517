"""Pages about whether the state of an app is well kept."""
