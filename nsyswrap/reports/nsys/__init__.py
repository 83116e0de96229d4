"""The reports of nsys itself: equal to `nsys stats`, cell by cell."""
