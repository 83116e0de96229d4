"""Files of what was collected."""
