"""Starts, displays and ends runs, and connects their stages. Also builds single stages without a flow."""
