"""What the page says: for each kind of report its pictures, tables and captions."""
