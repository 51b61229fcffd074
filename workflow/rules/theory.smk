# solve: theory curves, from the parameters and, for finite-size theory, from a teacher.
# Needs results/cache/<model>/data/*.h5 at most; makes results/cache/<model>/<solver>/<name>.h5.


use rule generate as solve with:
    input:
        inputs_of,
    wildcard_constraints:
        kind=one_of("solve"),
