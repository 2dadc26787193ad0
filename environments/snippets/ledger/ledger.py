"""Debts among friends."""


def balances(payments):
    """payments: (who paid, cents, for whom). What each is owed (negative: owes)."""
    result = {}
    for payer, cents, people in payments:
        share = cents // len(people)
        result[payer] = result.get(payer, 0) + share * len(people)
        for person in people:
            result[person] = result.get(person, 0) - share
    return result


def settle(balance):
    """Transfers (from, to, cents) that bring all to zero."""
    owed = sorted((name, cents) for name, cents in balance.items() if cents > 0)
    owes = sorted((name, -cents) for name, cents in balance.items() if cents < 0)
    transfers = []
    while owed and owes:
        (creditor, claim), (debtor, debt) = owed.pop(), owes.pop()
        cents = min(claim, debt)
        transfers.append((debtor, creditor, cents))
        if claim > cents:
            owed.append((creditor, claim - cents))
        if debt > cents:
            owes.append((debtor, debt - cents))
    return transfers
