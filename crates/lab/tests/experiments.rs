//! Every experiment, scaled down: the machinery from the scenario to the table and the figures. What must come out is
//! judged in full by `inhaul lab run`; here only where the experiment is run as it is.

use inhaul_lab::{Backend, experiments, judge, judgement_table, run_scenario};

#[test]
fn every_experiment_runs_and_is_judged() {
    for experiment in experiments().unwrap_or_else(|error| panic!("{error}")) {
        let scenario = experiment.scenario(&experiment.quick).unwrap_or_else(|error| panic!("{error}"));
        let mut runs = run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 2 }, &());
        for run in &runs {
            assert!(run.valid, "{} [{}]: {:?}", experiment.name, run.case, run.invalid_reason);
            assert!(run.flows.iter().all(|flow| flow.failure.is_none()), "{} [{}]", experiment.name, run.case);
        }
        let judgement = judge(&experiment, &mut runs);
        assert!(judgement.verdicts.len() >= experiment.checks.len(), "{}", experiment.name);
        assert_eq!(judgement.drawings.len(), experiment.figures.len(), "{}", experiment.name);
        assert!(judgement.drawings.iter().all(|drawing| drawing.to_svg().contains("</svg>")), "{}", experiment.name);
        assert!(judgement_table(&judgement).lines().count() > experiment.rows.len(), "{}", experiment.name);
        // A row that names a case or a quantity that does not exist would never be filled. A flow alone shares nothing; and
        // scaled down, some flows start so late that they are not together for long.
        let share_nothing = |case: &str| {
            runs.iter().filter(|run| run.case == case).any(|run| {
                let is_late = run.measured_flows().any(|flow| flow.start_s > run.measured_s[0]);
                is_late || run.measured_flows().nth(1).is_none()
            })
        };
        let is_empty = |row: &&inhaul_lab::TableRow| {
            let may_be = row.quantity.contains("convergence")
                || row.quantity.contains("jain_at")
                || (row.quantity.ends_with(".jain_index") && share_nothing(&row.case));
            row.mean.is_none() && !may_be
        };
        let empty: Vec<_> = judgement.table.iter().filter(is_empty).map(|row| (&row.case, &row.quantity)).collect();
        assert!(empty.is_empty(), "{}: {empty:?}", experiment.name);
    }
}

#[test]
fn every_experiment_runs_on_hosts_with_noise() {
    // What comes out is not judged here: only that nothing breaks a rule of the simulator, and that no flow gives up.
    for noise in ["vm-busy"] {
        for experiment in experiments().unwrap_or_else(|error| panic!("{error}")) {
            let mut set = experiment.quick.clone();
            set.extend([("noise".to_owned(), noise.to_owned()), ("repetitions".to_owned(), "1".to_owned())]);
            let scenario = experiment.scenario(&set).unwrap_or_else(|error| panic!("{error}"));
            for run in run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 2 }, &()) {
                let name = format!("{} [{}] beside {noise}", experiment.name, run.case);
                assert!(run.valid, "{name}: {:?}", run.invalid_reason);
                assert!(run.flows.iter().all(|flow| flow.failure.is_none()), "{name}");
            }
        }
    }
}

#[test]
fn figure_7_comes_out_with_capacities_given() {
    // gtp-2004 5.1.1: "whenever a new flow starts, each active flow achieves an identical fair share". With the
    // paper's control, how soon the shares are there depends on the moment of the join: ten are tried.
    const PLACES: u32 = 10;
    let experiment = inhaul_lab::find_experiment("gtp-2004/fig7").unwrap_or_else(|error| panic!("{error}"));
    let mut soon = 0;
    for place in 0..PLACES {
        let mut set = experiment.control_paper.clone();
        set.push(("flows.flow3.start".to_owned(), format!("{} ms", 2_960 + 20 * place)));
        let scenario = experiment.scenario(&set).unwrap_or_else(|error| panic!("{error}"));
        let mut runs = run_scenario(&scenario, &experiment.name, Backend::Sim { threads: 1 }, &());
        let judgement = judge(&experiment, &mut runs);
        let (shares, others): (Vec<_>, Vec<_>) =
            judgement.verdicts.iter().partition(|verdict| verdict.what.contains("soon after each join"));
        assert!(others.len() >= 3 && others.iter().all(|verdict| verdict.passed), "{others:?}");
        assert_eq!(shares.len(), 1, "{shares:?}");
        soon += u32::from(shares[0].passed);
    }
    assert!(soon * 2 > PLACES, "soon after {soon} of {PLACES} joins");
}
