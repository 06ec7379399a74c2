//! What sampling has cost and hasn't paid for yet.
//!
//! What it may cost is a part of the program's processor time and of one processor's, together. So how much time pays for what recording took depends
//! on how busy the program is from then on: one that was idle until a moment ago has used next to nothing so far.

/// For so many seconds it may save up.
const SAVED: f64 = 10.0;

/// In seconds: what this process did, and what recording took of the program's time. Less than nothing is saved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Debt {
    own: f64,
    recording: f64,
}

impl Debt {
    /// It has cost so much, in so many seconds, each of which pays for the part `cost` of itself. A program with this load uses that part of one
    /// processor's time.
    pub(super) fn pay(&mut self, (own, recording): (f64, f64), elapsed: f64, cost: f64, load: f64) {
        self.own += own - elapsed * cost;
        self.recording += recording;
        let paid = (-self.own).max(0.0).min(self.recording / load);
        self.own += paid;
        self.recording = (self.recording - paid * load).max(0.0);
        // A program that was idle all night isn't to pay for it in the morning.
        self.own = self.own.max(-SAVED * cost);
    }

    /// So many seconds pay for it. Below nothing: so many have been saved.
    pub(super) fn seconds(self, cost: f64, load: f64) -> f64 {
        (self.own + self.recording / load) / cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_about(debt: Debt, load: f64, expected: f64) -> bool {
        (debt.seconds(0.01, load) - expected).abs() < 1e-9
    }

    #[test]
    fn it_saves_up_for_some_seconds() {
        let mut debt = Debt::default();
        debt.pay((0.0, 0.0), 5.0, 0.01, 1.0);
        assert!(is_about(debt, 1.0, -5.0));
        debt.pay((0.0, 0.0), 3600.0, 0.01, 1.0);
        assert!(is_about(debt, 1.0, -SAVED));
        // 50 ms of recording take 5 s of that, or if the program has only half of a processor, 10 s.
        debt.pay((0.0, 0.05), 0.0, 0.01, 1.0);
        assert!(is_about(debt, 1.0, 5.0 - SAVED));
        debt.pay((0.0, 0.05), 0.0, 0.01, 0.5);
        assert!(is_about(debt, 0.5, 15.0 - SAVED));
        debt.pay((0.03, 0.0), 0.0, 0.01, 0.5);
        assert!(is_about(debt, 0.5, 18.0 - SAVED));
    }

    /// What was recorded when a program began to work is a hundredth of the next seconds, not of the last.
    #[test]
    fn the_load_may_change() {
        let mut debt = Debt::default();
        debt.pay((0.0, 0.02), 0.1, 0.01, 0.01);
        assert!(is_about(debt, 0.01, 199.9));
        debt.pay((0.0, 0.0), 1.0, 0.01, 1.0);
        assert!(is_about(debt, 1.0, 0.999));
        debt.pay((0.0, 0.0), 1.0, 0.01, 1.0);
        assert!(is_about(debt, 1.0, -0.001));
    }

    #[test]
    fn no_rounding_is_a_debt() {
        let mut debt = Debt::default();
        for number in 1..10_000 {
            let part = f64::from(number % 7) / 7.0;
            debt.pay((0.001 * part, 0.003 * part), 0.3 * part, 0.01, 0.01 + part / 3.0);
            assert!(debt.recording >= 0.0 && debt.seconds(0.01, 0.1).is_finite());
        }
    }
}
