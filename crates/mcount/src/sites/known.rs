//! The answers about a file so far, so that several questions don't search for the same thing.

use super::{image, object, sleds};
use crate::error::Result;
use crate::options::Options;
use crate::scan::Target;
use crate::scan::bare::Bare;
use crate::scan::functions::FunctionIndex;
use crate::site::CallSite;
use std::rc::Rc;

/// The answers about a file. The options must be the same for all questions.
#[derive(Default)]
pub(crate) struct Known<'d> {
    /// Whether there may be another question.
    keeps: bool,
    functions: Option<Rc<FunctionIndex<'d>>>,
    bare: Option<Bare>,
    sites: Option<Vec<CallSite>>,
}

impl<'d> Known<'d> {
    /// Nothing yet. The answers are kept.
    pub(crate) fn kept() -> Self {
        Self { keeps: true, ..Self::default() }
    }

    /// The index of function symbols.
    ///
    /// # Errors
    ///
    /// Symbols are malformed.
    pub(crate) fn functions(&mut self, target: &Target<'_, 'd>) -> Result<Rc<FunctionIndex<'d>>> {
        if let Some(functions) = &self.functions {
            return Ok(Rc::clone(functions));
        }
        let functions = Rc::new(FunctionIndex::new(target)?);
        self.functions = Some(Rc::clone(&functions));
        Ok(functions)
    }

    /// The sites by an image's entries, if it has no symbols.
    pub(crate) fn bare(&mut self, target: &Target<'_, 'd>) -> Bare {
        *self.bare.get_or_insert_with(|| Bare::find(target))
    }

    /// Every site.
    ///
    /// # Errors
    ///
    /// As [`crate::scan()`].
    pub(crate) fn sites(
        &mut self,
        target: &Target<'_, 'd>,
        options: &Options,
    ) -> Result<Vec<CallSite>> {
        if let Some(sites) = &self.sites {
            return Ok(sites.clone());
        }
        let functions = self.functions(target)?;
        let mut sites = if target.is_image {
            image::sites(target, &functions, options, Some(self.bare(target)), true)?.0
        } else {
            object::found(target, &functions, options)?
        };
        sleds::add_sites(target, &functions, options, &mut sites)?;
        if self.keeps {
            self.sites = Some(sites.clone());
        }
        Ok(sites)
    }

    /// The entries of the tables in their own order. `sites` are the sites, if this is an image.
    ///
    /// # Errors
    ///
    /// As [`crate::read_table`].
    pub(crate) fn entries(
        &mut self,
        target: &Target<'_, 'd>,
        options: &Options,
        sites: &[CallSite],
    ) -> Result<Vec<CallSite>> {
        let functions = self.functions(target)?;
        let mut entries = if target.is_image {
            image::entries(target, &functions, options, self.bare(target), sites)
        } else {
            object::entries(target, &functions, options)?
        };
        entries.extend(sleds::all(target, &functions, options)?);
        Ok(entries)
    }
}
