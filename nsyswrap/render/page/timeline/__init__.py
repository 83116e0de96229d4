"""The data of the page's timeline: events one by one, bins of all others, and where a reader should look."""
