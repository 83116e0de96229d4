"""Tables, pages, plots and traces from reports and captures."""
