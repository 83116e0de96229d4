"""What nsyswrap knows about the nsys command: where it is, and how to call it."""
