"""What was found, shown: as text, as a page with pictures, as data, and the page of each rule."""
