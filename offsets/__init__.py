"""The offset manager: pure, knows ``protocol`` alone. See docs/formats/consumer-offsets.md."""
