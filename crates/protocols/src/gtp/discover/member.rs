//! The flows of a receiver while the law evaluates them.

use inhaul_base::Bitrate;
use inhaul_transport::FlowId;

use super::found::{Found, Sample};
use super::judgement::Judgement;
use crate::gtp::monitor::Interval;

/// A flow while the law looks at it.
#[derive(Debug)]
pub(in crate::gtp) struct Member<'a> {
    pub(in crate::gtp) id: FlowId,
    pub(in crate::gtp) sample: Sample,
    pub(in crate::gtp) found: &'a mut Found,
    /// The central interval's measurements, if one has ended with enough packets to judge.
    pub(in crate::gtp) interval: Option<Interval>,
    /// Its judgement.
    pub(super) judged: Option<Judgement>,
}

impl<'a> Member<'a> {
    pub(in crate::gtp) fn new(id: FlowId, sample: Sample, found: &'a mut Found, interval: Option<Interval>) -> Self {
        Self { id, sample, found, interval, judged: None }
    }

    /// Whether the law finds the flow's rate.
    fn is_running(&self) -> bool {
        self.sample.runs && !self.sample.is_stream
    }

    pub(super) fn estimate_by_path(&mut self) {
        self.found.estimate_by_path(&self.sample);
    }
}

/// All flows of a receiver that do not rest, in the order of their numbers.
#[derive(Debug)]
pub(in crate::gtp) struct Group<'a>(Vec<Member<'a>>);

impl<'a> Group<'a> {
    /// The flows in the order of their numbers.
    pub(in crate::gtp) fn new(members: impl Iterator<Item = Member<'a>>) -> Self {
        Self(members.collect())
    }

    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Member<'a>> {
        let at = self.0.binary_search_by_key(&id, |member| member.id).ok()?;
        self.0.get_mut(at)
    }

    /// All of them, whether they have begun or not.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        self.0.iter_mut()
    }

    /// Flows that the scheduler gives a rate, streams too.
    pub(super) fn scheduled(&self) -> impl Iterator<Item = &Member<'a>> {
        self.0.iter().filter(|member| member.sample.runs)
    }

    pub(super) fn scheduled_mut(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        self.0.iter_mut().filter(|member| member.sample.runs)
    }

    /// Flows for which the law finds a rate.
    pub(super) fn running(&self) -> impl Iterator<Item = &Member<'a>> {
        self.0.iter().filter(|member| member.is_running())
    }

    pub(super) fn running_mut(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        self.0.iter_mut().filter(|member| member.is_running())
    }

    /// Those of them that have been told a rate.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Member<'a>> {
        self.0.iter().filter(|member| member.sample.is_under_way())
    }

    pub(super) fn under_way_mut(&mut self) -> impl Iterator<Item = &mut Member<'a>> {
        self.0.iter_mut().filter(|member| member.sample.is_under_way())
    }

    /// Flows with a judgement of the interval, and that judgement.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&Member<'a>, &Judgement)> {
        self.0.iter().filter_map(|member| Some((member, member.judged.as_ref()?)))
    }

    pub(super) fn judged_mut(&mut self) -> impl Iterator<Item = (&mut Member<'a>, Judgement)> {
        self.0.iter_mut().filter_map(|member| {
            let judged = member.judged?;
            Some((member, judged))
        })
    }

    /// The sum of all told rates.
    pub(super) fn told(&self) -> Bitrate {
        sum(self.running().map(|member| member.sample.told))
    }

    /// The sum of all granted rates.
    pub(super) fn granted(&self) -> Bitrate {
        sum(self.running().map(|member| member.found.granted(&member.sample)))
    }

    /// Bytes of the largest block.
    pub(super) fn block_max(&self) -> u64 {
        self.running().map(|member| member.sample.block).max().unwrap_or(0)
    }
}

pub(super) fn sum(rates: impl Iterator<Item = Bitrate>) -> Bitrate {
    rates.fold(Bitrate::ZERO, Bitrate::saturating_add)
}
