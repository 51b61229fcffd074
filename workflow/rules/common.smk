# Helpers of the rules: the catalogue of experiments, and the functions that name files.
# Needs the configuration; makes no file but the merged configuration beside the figures.
import cluster
import progress
from hdattn import overview, physics_code, steps
from hdattn.canonical import canonical_json
from hdattn.catalogue import CACHE, FIGURES, Catalogue
from hdattn.cost import limits
from hdattn.figures.code import overview_digest, plot_digest, scan_digest
from kept import kept

try:
    configuration = startup.load_configuration(config, workflow.configfiles)
    catalogue = Catalogue(configuration)
    startup.set_job_environment(BASE, configuration.run)
    if workflow.is_main_process:
        startup.prepare(catalogue, configuration, read_only=startup.reads_only(sys.argv))
        progress.follow(catalogue, workflow)
except UserError as error:
    sys.exit(str(error))

# All bundles are one kind of group to Snakemake: a profile says group-components: bundle=1000.
workflow.parent_groupids.update(catalogue.bundle_names("bundle"))
# Their members run one after another on one core, whatever the machine at hand has.
if workflow.remote_exec or workflow.nodes:
    workflow.global_resources["_cores"] = 1


# Snakemake keeps one such handler: all that comes before the first job is in it.
onstart:
    startup.drop_default_rate_limit(workflow)
    try:
        cluster.check_run(workflow)
    except UserError as error:
        sys.exit(str(error))


SCALE = configuration.run.scale
LOOK = canonical_json(configuration.run.look())
SHEET = configuration.run.style_sheet_digest()
MORE_FORMATS = [f for f in configuration.run.figure_formats if f not in ("pdf", "png")]
SCAN_FILES = ("csv", "h5", "png")
PUBLISHED = ("pdf", "png", "csv", "drawn.csv", "json", "validation.csv")
VALIDATION = f"{FIGURES}/{SCALE}/validation.csv"
VALIDATION_DIGEST = f"{FIGURES}/{SCALE}/validation.json"
VALIDATED = f"{FIGURES}/{SCALE}/.validated"
OVERVIEW = f"{FIGURES}/{SCALE}/{overview.NAME}" if overview.is_among(catalogue.figures) else ""


def one_of(rule_name):
    """Wildcard constraint: the kinds of experiment that a rule makes."""
    return "|".join(steps.RULES[rule_name])


def experiment_of(wildcards):
    """The experiment behind an output file."""
    try:
        return catalogue.experiment(wildcards.kind, wildcards.name)
    except KeyError:
        sys.exit(
            f"{CACHE}/{wildcards.kind}/{wildcards.name}.h5: no selected figure asks for this file"
        )


def cached(experiment):
    """File of an experiment."""
    return str(CACHE / experiment.path)


def inputs_of(wildcards):
    """Files that an experiment reads."""
    return [cached(e) for e in experiment_of(wildcards).inputs.values()]


def input_arguments(wildcards):
    """The same as ``role=file`` arguments."""
    return [f"{role}={cached(e)}" for role, e in experiment_of(wildcards).inputs.items()]


def parameters_of(wildcards):
    """Parameters of an experiment as canonical JSON."""
    return experiment_of(wildcards).parameters_json


def physics_of(wildcards):
    """Digest of the physics code behind an experiment: a change makes it anew."""
    return physics_code.physics_of(wildcards.kind, experiment_of(wildcards).parameters)


def memory_of(wildcards, attempt):
    """Memory to ask for, in MB."""
    return limits.memory_mb(catalogue.estimate(experiment_of(wildcards)), attempt)


def runtime_of(wildcards, attempt):
    """Run time to ask for, in minutes."""
    estimate = catalogue.estimate(experiment_of(wildcards))
    return limits.minutes(estimate, attempt, bundled=bundle_of(wildcards) is not None)


def bundle_of(wildcards):
    """Name of the bundle that a cluster gets a short job in; none for a long one, and here."""
    job = catalogue.job_of(experiment_of(wildcards))
    return None if workflow.local_exec or len(job.members) == 1 else job.name


def files_of(*entries):
    """Figures, what lies beside them, and the experiments they draw."""
    figures = [f"{e.stem}.{ending}" for e in entries for ending in PUBLISHED]
    return figures + [cached(e) for entry in entries for e in entry.direct()]


def files_of_overview():
    """The overview, where the figures that it shows are all selected."""
    return [f"{OVERVIEW}.{ending}" for ending in PUBLISHED[:-1]] if OVERVIEW else []


def files_of_family(model):
    """The same for the selected figures of one family, and their validation."""
    try:
        return [*files_of(*catalogue.family(model)), f"{FIGURES}/{SCALE}/{model}/.validated"]
    except UserError as error:
        sys.exit(str(error))


def files_of_scans():
    """Tables of all scans."""
    if not catalogue.scans:
        sys.exit("scans: there is none; add one under 'scans' of config/config.yaml")
    return [f"{entry.stem}.{ending}" for entry in catalogue.scans.values() for ending in SCAN_FILES]


def folder_of(wildcards, output):
    """Folder of a rule's first output."""
    return str(Path(output[0]).parent)


def stem_of(wildcards, output):
    """Path of a figure's files without their ending."""
    return str(Path(output[0]).with_suffix(""))
