"""Networks trained by recipes: formats by role, scales, and sums; loss against energy and area.

========================  ============================================================
``recipe_plan``           the recipes, and what is trained with them
``learners``              the networks: a ResNet, a vision transformer, a transformer
``recipe_trials``         trains them, here or on a cluster
``recipe_report``         the record, its tables and its plot
========================  ============================================================
"""
