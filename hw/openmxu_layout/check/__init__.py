"""Checks of layouts: rules and circuits by KLayout with a foundry's decks, netlists by comparison."""
