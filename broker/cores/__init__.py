"""What gives a pure core its turns, its log and its timer."""
