"""Finding sessions over all sources: the query bar of every page, the page “Sessions” with its histogram and preview."""
