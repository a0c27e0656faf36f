"""The clocks and timers of a broker in test mode, which tests control."""
