"""What the ingress says of itself: health, metrics, pages and documents of the admin listener."""
