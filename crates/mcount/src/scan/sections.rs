//! What all sites of a section have in common. It is looked up once, because there are thousands of
//! sites, and most of them are in one section.

use super::Target;
use crate::policy::{Policy, Treatment};
use std::sync::Arc;

/// A section that has sites.
#[derive(Clone)]
pub(crate) struct SiteSection {
    index: u32,
    /// Its name, with invalid UTF-8 replaced.
    pub(crate) name: Arc<str>,
    /// The policy's answer about it.
    pub(crate) treatment: Treatment,
    /// Its address; 0 in an object.
    pub(crate) base: u64,
}

/// Remembers the last section.
#[derive(Default)]
pub(crate) struct SiteSections {
    last: Option<SiteSection>,
}

impl SiteSections {
    /// Section `index` of `target`.
    pub(crate) fn get(
        &mut self,
        target: &Target<'_, '_>,
        policy: &Policy,
        index: u32,
    ) -> SiteSection {
        if let Some(last) = self.last.as_ref().filter(|last| last.index == index) {
            return last.clone();
        }
        let name = target.view.section_name(index);
        let header = target.view.section(index);
        let section = SiteSection {
            index,
            name: text(name),
            treatment: policy.section(name),
            base: header.map_or(0, |header| target.base(&header)),
        };
        self.last.insert(section).clone()
    }
}

/// `name`, with invalid UTF-8 replaced.
pub(crate) fn text(name: &[u8]) -> Arc<str> {
    Arc::from(crate::names::lossy(name))
}
