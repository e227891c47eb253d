"""heeler has a package of this name."""

KEPT = "kept by one"
