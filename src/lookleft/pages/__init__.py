"""Reports as single files that work offline: one style, charts drawn as SVG, parts filled in."""
