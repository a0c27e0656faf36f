"""The offset manager: pure, knows ``protocol`` alone. See docs/consumer-offsets.md."""
