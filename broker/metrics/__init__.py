"""What is counted, how far groups are behind, and the text of a scrape."""
