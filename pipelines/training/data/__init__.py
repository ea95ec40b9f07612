"""From the rows of a method to encoded records. Imports no model."""
